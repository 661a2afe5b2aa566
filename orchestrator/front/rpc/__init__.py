"""The gRPC side of the front door: calls become the requests that HTTP has, and answers become messages."""
