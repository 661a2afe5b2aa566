"""Mirrors requests, runs ahead, streams guesses."""
