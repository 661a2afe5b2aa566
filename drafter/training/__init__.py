"""Training of draft heads for a target: data, features, losses, validation, export."""
