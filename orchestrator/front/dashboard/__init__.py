"""`/dashboard`: one page that shows a running service, live. What it shows is made here, how it looks by files beside."""
