"""What `orchestrator doctor` looks at: the machine, the models, the services that run."""
