"use strict";
// What an event says, as markup: functions of their arguments alone. Whatever a node says of itself is escaped.

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escaped = (text) => String(text).replace(/[&<>"']/g, (sign) => ESCAPES[sign]);
const number = (value, digits = 1) => Number(value).toFixed(value >= 100 ? 0 : digits);
const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");
const count = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, " ");
const time = (seconds) =>
  seconds == null ? "" : seconds < 0.01 ? `${(seconds * 1e3).toFixed(2)} ms`
  : seconds < 1 ? `${Math.round(seconds * 1e3)} ms` : `${seconds.toFixed(seconds < 10 ? 2 : 0)} s`;

/** Whole events of a stream of server-sent events, and what is left of the text behind them. */
function parsed(text) {
  const parts = text.split("\n\n");
  const rest = parts.pop();
  const data = parts.map((part) => part.replace(/^data: /, "")).filter((part) => part.startsWith("{"));
  return [data.map((part) => JSON.parse(part)), rest];
}

/** A round number at or above `most`, and a step that divides it. */
function scale(most) {
  const size = 10 ** Math.floor(Math.log10(Math.max(most, 1e-9)));
  const step = [0.25, 0.5, 1, 2.5].map((each) => each * size).find((each) => most / each <= 4) || 5 * size;
  return [Math.max(step, Math.ceil(most / step - 1e-9) * step), step];
}

/** Curves over the last `span` seconds; `series` names a class and the place of its value in a point. */
function curves(points, series, { now, width, height = 150, span = 300, least = 1 }) {
  const left = 34, right = 4, top = 8, bottom = 20;
  const across = width - left - right, up = height - top - bottom;
  const most = Math.max(least, ...points.flatMap((point) => series.map(([, at]) => point[at])));
  const [whole, step] = scale(most);
  const x = (at) => (left + across * (1 - (now - at) / span)).toFixed(1);
  const y = (value) => (top + up * (1 - value / whole)).toFixed(1);
  const parts = [];
  for (let value = 0; value <= whole + step / 2; value += step) {
    parts.push(`<path class="grid" d="M${left} ${y(value)}H${width - right}"/>`);
    parts.push(`<text x="${left - 8}" y="${+y(value) + 4}" text-anchor="end">${+value.toFixed(2)}</text>`);
  }
  for (const [minutes, anchor] of [[4, "middle"], [3, "middle"], [2, "middle"], [1, "middle"], [0, "end"]]) {
    const text = minutes ? `${minutes} min` : "now";
    parts.push(`<text x="${x(now - 60 * minutes)}" y="${height - 3}" text-anchor="${anchor}">${text}</text>`);
  }
  const shown = points.filter((point) => now - point[0] <= span);
  for (const [kind, at, filled] of series) {
    if (shown.length < 2) continue;
    const line = shown.map((point) => `${x(point[0])} ${y(point[at])}`).join("L");
    const first = x(shown[0][0]), last = x(shown[shown.length - 1][0]);
    if (filled) parts.push(`<path class="fill ${kind}" d="M${first} ${y(0)}L${line}L${last} ${y(0)}Z"/>`);
    parts.push(`<path class="curve ${kind}" d="M${line}"/>`);
  }
  return `<svg viewBox="0 0 ${width} ${height}" height="${height}" role="img">${parts.join("")}</svg>`;
}

/** For each position of a window: in how many rounds a draft stood there, and in how many it was accepted. */
function positions(pairs, { drafts, width, height = 150 }) {
  const used = pairs.filter(([drafted]) => drafted > 0).slice(0, 16);
  if (!used.length || !drafts) return '<p class="none">No drafts yet.</p>';
  const left = 34, top = 8, bottom = 20, up = height - top - bottom;
  const room = (width - left) / Math.max(used.length, 8), wide = Math.min(44, room * 0.62);
  const y = (share) => top + up * (1 - share);
  const parts = [0, 0.5, 1].map((share) =>
    `<path class="grid" d="M${left} ${y(share)}H${width}"/>` +
    `<text x="${left - 8}" y="${y(share) + 4}" text-anchor="end">${100 * share} %</text>`);
  used.forEach(([drafted, accepted], place) => {
    const x = left + room * place + (room - wide) / 2;
    const bar = (kind, share) =>
      `<rect class="${kind}" x="${x.toFixed(1)}" y="${y(share).toFixed(1)}" width="${wide.toFixed(1)}"` +
      ` height="${(up * share).toFixed(1)}" rx="2"/>`;
    const text = `position ${place + 1}: ${count(accepted)} of ${count(drafted)} accepted, ${percent(accepted, drafted)}`;
    parts.push(`<g><title>${text}</title>${bar("bar", accepted / drafts)}${bar("verified", drafted / drafts)}</g>`);
    parts.push(`<text x="${(x + wide / 2).toFixed(1)}" y="${height - 3}" text-anchor="middle">${place + 1}</text>`);
  });
  return `<svg viewBox="0 0 ${width} ${height}" height="${height}" role="img">${parts.join("")}</svg>`;
}

function drafters(shares, nodes) {
  const names = Object.keys(shares).sort();
  if (!names.length) return '<p class="none">Nobody drafts: every round is plain.</p>';
  const methods = Object.fromEntries(nodes.map((node) => [node.name, node.method]));
  return names.map((name) => {
    const [drafted, accepted] = shares[name];
    const share = drafted ? (100 * accepted) / drafted : 0;
    const about = drafted ? `${count(accepted)} of ${count(drafted)} drafts` : "no drafts yet";
    const method = methods[name] ? `${methods[name]}, ` : "";
    return `<div class="share"><b>${escaped(name)}</b><div class="track"><i style="width:${share.toFixed(1)}%"></i></div>` +
      `<span>${percent(accepted, drafted)}</span><small>${escaped(method)}${about}</small></div>`;
  }).join("");
}

const COLUMNS = { front: 0, verifier: 1, drafter: 2, prefill: 2 };
const MOST_ROWS = 8;

/** Nodes in three columns, from who asks to who is asked, and the links between them. */
function mesh(nodes, links, width) {
  const columns = [[], [], []];
  for (const node of [...nodes].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }))) {
    columns[COLUMNS[node.role] ?? 2].push(node);
  }
  const high = 66, step = 80, wide = Math.min(230, (width - 200) / 3);
  const tall = Math.max(...columns.map((column) => Math.min(column.length, MOST_ROWS + 1)), 1) * step;
  const places = new Map(), cards = [];
  columns.forEach((column, place) => {
    const shown = column.slice(0, MOST_ROWS), more = column.length - shown.length;
    const start = (tall - (shown.length + (more ? 1 : 0)) * step) / 2;
    const x = (width - wide) * (place / 2);
    shown.forEach((node, row) => {
      const y = start + row * step + (step - high) / 2;
      places.set(node.name, { x, y: y + high / 2 });
      cards.push(card(node, x, y, wide, high));
    });
    const middle = `x="${(x + wide / 2).toFixed(1)}" text-anchor="middle"`;
    if (more) cards.push(`<text ${middle} y="${start + shown.length * step + 20}">and ${more} more</text>`);
    if (!column.length) cards.push(`<text ${middle} y="${tall / 2 + 4}">${["no front door", "no verifier", "nobody drafts"][place]}</text>`);
  });
  const drawn = links.filter((link) => places.has(link.from) && places.has(link.to));
  const wires = drawn.map((link) => wire(link, places.get(link.from), places.get(link.to), wide));
  const trips = [...new Set(drawn.map((link) => link.to))].map((name) =>
    trip(drawn.filter((link) => link.to === name), places.get(name)));
  return `<svg viewBox="0 0 ${width} ${tall}" width="${width}" height="${tall}" role="img">${wires.join("")}${trips.join("")}${cards.join("")}</svg>`;
}

function card(node, x, y, wide, high) {
  const load = node.state === "gone" ? `gone for ${Math.round(node.age)} s`
    : node.state === "silent" ? `silent for ${Math.round(node.age)} s`
    : node.role === "front" ? `${node.in_flight ?? 0} in flight`
    : node.role === "verifier" ? `${node.running ?? 0} running${node.waiting ? `, ${node.waiting} waiting` : ""}`
    : node.role === "prefill" ? `${node.prompts ?? 0} prompts` : `${node.mirrors ?? 0} mirrored`;
  const runs = node.role === "front" ? "front door" : [node.role, node.method || node.weights, node.device].filter(Boolean).join(" · ");
  return `<g class="node ${escaped(node.role)} ${escaped(node.state)}" transform="translate(${x.toFixed(1)} ${y.toFixed(1)})">` +
    `<title>${escaped(`${node.name}: ${node.state}, ${runs}, ${load}`)}</title>` +
    `<rect width="${wide.toFixed(1)}" height="${high}" rx="9"/><rect class="stripe" x="0" y="14" width="3" height="${high - 28}" rx="1.5"/>` +
    `<circle cx="${(wide - 15).toFixed(1)}" cy="17" r="3.5"/>` +
    `<text class="name" x="16" y="22">${escaped(node.name)}</text><text x="16" y="38">${escaped(runs)}</text>` +
    `<text x="16" y="54">${escaped(load)}</text></g>`;
}

function wire(link, from, to, wide) {
  const x1 = from.x + wide, x2 = to.x, middle = (x1 + x2) / 2 - 20;
  return `<path class="link ${escaped(link.state)}" d="M${x1} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${x2} ${to.y}">` +
    `<title>${escaped(`${link.from} to ${link.to}: ${link.state} ${time(link.seconds)}`)}</title></path>`;
}

/** How far a node is from those that dial it: one word where their links meet. */
function trip(links, to) {
  const worst = ["gone", "silent", "up"].find((state) => links.some((link) => link.state === state));
  const times = links.map((link) => link.seconds).filter((seconds) => seconds != null);
  const near = Math.min(...times), far = Math.max(...times);
  const apart = far > 1.2 * near && near >= 0.01 === far >= 0.01;
  const known = apart ? `${time(near).replace(/ .*/, "")}–${time(far)}` : time(far);
  const text = worst === "gone" ? "broken" : worst === "silent" ? "silent" : times.length ? known : "up";
  const room = 6.4 * text.length + 12, middle = to.x - 18 - room / 2;
  return `<rect class="trip" x="${middle - room / 2}" y="${to.y - 10}" width="${room}" height="20" rx="6"/>` +
    `<text class="far ${worst}" x="${middle}" y="${to.y + 4}">${text}</text>`;
}

const shade = (tokens) => (tokens <= 1 ? "t1" : tokens <= 3 ? "t2" : tokens <= 6 ? "t3" : "t4");

/** One request from its beginning: the wait, then a block for each piece that came; `longest` is the whole width. */
function waterfall(request, longest, width) {
  const high = 16, x = (at) => (width * at) / longest, parts = [];
  const block = (kind, from, to, text) => {
    const start = x(from), wide = Math.max(1, x(to) - start - (x(to) - start > 3 ? 1 : 0));
    parts.push(`<rect class="${kind}" x="${start.toFixed(1)}" width="${wide.toFixed(1)}" height="${high}" rx="2"><title>${text}</title></rect>`);
  };
  let before = 0;
  request.pieces.forEach(([at, tokens, drafts], place) => {
    if (place === 0) block("wait", 0, at, `${time(at)} until the first token`);
    else block(shade(tokens), before, at, `${tokens} token${tokens === 1 ? "" : "s"}, ${drafts} of them drafts, after ${time(at - before)}`);
    before = at;
  });
  if (!request.over) block("running", before, request.seconds, "running");
  else if (!request.pieces.length) block("wait", 0, request.seconds, escaped(request.reason));
  return `<svg viewBox="0 0 ${width} ${high}" height="${high}" preserveAspectRatio="none" role="img">${parts.join("")}</svg>`;
}

/** The newest first; `opened` holds pictures of whole traces, by the number of the request. */
function requests(list, { width, traces, opened = new Map() }) {
  if (!list.length) return "";
  const longest = Math.max(...list.map((each) => each.seconds), 0.05);
  return [...list].sort((a, b) => b.number - a.number).map((each) => {
    const failed = each.over && !["stop", "length"].includes(each.reason);
    const round = each.rounds ? `${number(each.tokens / each.rounds, 1)} a round` : "";
    const what = failed ? escaped(each.reason) : `${each.tokens} token${each.tokens === 1 ? "" : "s"} in ${time(each.seconds)}`;
    const more = traces && each.trace && each.over
      ? `<button data-trace="${escaped(each.trace)}" data-number="${each.number}">${opened.has(each.number) ? "close" : "trace"}</button>` : "";
    const whole = opened.has(each.number) ? `<div class="whole">${opened.get(each.number)}</div>` : "";
    return `<div class="request"><div class="who" title="${escaped(each.name)}">#${each.number}` +
      `<small>${each.prompt} in${each.choices > 1 ? `, ${each.choices} choices` : ""}</small>${more}</div>` +
      `<div>${waterfall(each, longest, width)}</div>` +
      `<div class="what${failed ? " failed" : ""}">${what}</div><small>${round}</small>${whole}</div>`;
  }).join("");
}

const PLAIN = {
  prefill: "ends of prompts", no_drafter: "no drafter", waiting: "no drafter takes it", late: "drafts come late", no_tail: "no guess",
  no_room: "no room", off: "drafting is off", rest: "drafters rest", waste: "not worth it",
};

/** The row of numbers below the curve. */
function facts(picture) {
  const { shares, nodes } = picture;
  const verifiers = nodes.filter((node) => node.role === "verifier" && node.state !== "gone");
  const sum = (name) => verifiers.reduce((all, node) => all + (node[name] || 0), 0);
  const plain = Object.entries(shares.plain).sort((a, b) => b[1] - a[1]);
  const bare = plain.reduce((all, [, times]) => all + times, 0);
  const kv = verifiers.length ? sum("kv") / verifiers.length : 0;
  const rows = [
    ["Drafts accepted", percent(shares.accepted, shares.drafted), shares.drafted ? `of ${count(shares.drafted)}` : ""],
    ["Tokens a round", shares.rounds ? number(shares.tokens / shares.rounds, 2) : "–", shares.rounds ? `${count(shares.rounds)} rounds` : ""],
    ["Plain rounds", percent(bare, shares.rounds), plain.length ? `mostly: ${PLAIN[plain[0][0]] || plain[0][0]}` : ""],
    ["Running", String(sum("running")), sum("waiting") ? `${sum("waiting")} wait` : "none waits"],
    ["KV in use", percent(kv, 1), ""],
  ];
  return rows.map(([name, value, about]) =>
    `<div><dt>${name}</dt><dd>${value}<small>${escaped(about)}</small></dd></div>`).join("");
}

/** How the pace now compares with what it would be without drafts. */
function gain(picture) {
  const point = picture.points[picture.points.length - 1];
  if (!picture.speculating) return "Nobody drafts: plain decoding.";
  if (!picture.gain || !picture.shares.drafts) return "";
  const times = `<b>${number(picture.gain, 2)}×</b>`;
  return point && point[1] > 0 ? `${times} the ${number(point[2])} that it would be without drafts`
    : `${times} its pace without drafts, when last busy`;
}

/** What to type where nothing was asked yet. */
function invitation(origin, model) {
  const body = JSON.stringify({ model, prompt: "1, 2, 3, 4, 1, 2, 3,", max_tokens: 64 });
  return `<p class="none">Nothing was asked yet. For instance:</p>` +
    `<code>curl ${escaped(origin)}/v1/completions -H 'Content-Type: application/json' -d '${escaped(body)}'</code>`;
}

if (typeof module !== "undefined") {
  module.exports = { curves, drafters, escaped, facts, gain, invitation, mesh, parsed, positions, requests, scale, waterfall };
}
