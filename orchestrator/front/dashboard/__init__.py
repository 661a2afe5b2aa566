"""`/dashboard`: a running service on one page, live. What it shows is made here; how it looks, by files beside."""
