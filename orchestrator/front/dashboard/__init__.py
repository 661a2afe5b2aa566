"""`/dashboard`: one page that shows a running service, live. What it shows is made here; files beside draw it."""
