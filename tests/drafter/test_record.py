"""What a drafter counts, and what it records of requests that are traced."""
