"""What gRPC's tools made of `draftmesh.proto`; nothing here is written by hand but that file."""
