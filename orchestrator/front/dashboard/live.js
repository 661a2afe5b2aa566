// The page as it lives: reads the stream, keeps what later events do not repeat, and puts markup where it belongs.

const SPAN = 300, KEPT = 12;
const shown = new Map(), seen = new Map(), opened = new Map();
let points = [], picture = null, wait = 1000;

const at = (id) => document.getElementById(id);
const width = (id) => Math.max(200, at(id).clientWidth);

/** Markup is replaced only where it changed: what somebody points at stays. */
function put(id, markup) {
  if (shown.get(id) === markup) return;
  shown.set(id, markup);
  at(id).innerHTML = markup;
}

function take(event) {
  points = [...points, ...event.points].slice(-SPAN);
  for (const each of event.requests) seen.set(each.number, each);
  const over = [...seen.values()].filter((each) => each.over).sort((a, b) => b.number - a.number);
  for (const each of over.slice(KEPT)) {
    seen.delete(each.number);
    opened.delete(each.number);
  }
  picture = { ...event, points };
  draw();
}

function draw() {
  if (!picture) return;
  const { now, shares, nodes, links } = picture;
  const last = points[points.length - 1];
  document.body.className = "";
  at("model").textContent = picture.model;
  at("state").textContent = picture.state;
  at("state").className = `pill ${picture.state.split(" ")[0].replace("no", "none")}`;
  at("version").textContent = `draftmesh ${picture.version}`;
  document.title = last && last[1] > 0 ? `${number(last[1])} tokens/s, draftmesh` : "draftmesh";
  put("pace", last ? number(last[1]) : "–");
  put("gain", gain(picture));
  put("rates", curves(points, [["plain", 2], ["with", 1, true]], { now, width: width("rates"), least: 10 }));
  put("lengths", curves(points, [["chosen", 3], ["with", 4, true]], { now, width: width("lengths"), least: 4 }));
  put("facts", facts(picture));
  put("mesh", mesh(nodes, links, Math.max(680, width("mesh"))));
  put("drafters", drafters(shares.drafters, nodes));
  put("positions", positions(shares.positions, { drafts: shares.drafts, width: width("positions") }));
  put("window", shares.rounds ? (shares.seconds ? `Of the last ${minutes(shares.seconds)}.` : "Since the processes began.") : "");
  const list = [...seen.values()].sort((a, b) => b.number - a.number).slice(0, KEPT);
  const room = width("requests") < 700 ? width("requests") : width("requests") - 150 - 150 - 84 - 42;
  put("requests", requests(list, { width: room, traces: picture.traces, opened }) || invitation(location.origin, picture.model));
  at("legend").hidden = !list.length;
}

const minutes = (seconds) => (seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} minutes`);

function headers() {
  const key = sessionStorage.getItem("key");
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function listen() {
  const answer = await fetch("dashboard/events", { headers: headers(), cache: "no-store" });
  if (answer.status === 401) {
    sessionStorage.removeItem("key");
    at("key").hidden = false;
    at("secret").focus();
    at("line").textContent = "";
    return false;
  }
  if (!answer.ok) throw new Error(`the service answers ${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  at("line").textContent = "live";
  at("key").hidden = true;
  points = [];
  seen.clear();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the service ended the stream");
    const [events, rest] = parsed(text + value);
    text = rest;
    wait = 1000;
    events.forEach(take);
  }
}

async function live() {
  try {
    if (!(await listen())) return;
  } catch (error) {
    document.body.className = picture ? "lost" : "waiting";
    at("line").textContent = "no connection, trying again";
    setTimeout(live, wait);
    wait = Math.min(2 * wait, 8000);
  }
}

async function open(button) {
  const seat = Number(button.dataset.number);
  if (opened.has(seat)) opened.delete(seat);
  else {
    const answer = await fetch(`dashboard/trace?id=${encodeURIComponent(button.dataset.trace)}`, { headers: headers() });
    opened.set(seat, answer.ok ? await answer.text() : '<p class="none">Its spans are not here, or not yet.</p>');
  }
  draw();
}

at("key").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", at("secret").value);
  at("secret").value = "";
  live();
});
at("requests").addEventListener("click", (event) => {
  if (event.target.dataset.trace) open(event.target);
});
addEventListener("resize", () => { shown.clear(); draw(); });
live();
