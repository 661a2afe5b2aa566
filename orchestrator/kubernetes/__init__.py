"""What the Helm chart may be told, and what it tells the processes."""
