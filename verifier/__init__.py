"""Owns the truth: draft tail, acceptance rules, planner, scheduler, the loop of the target."""
