"""Other libraries' calls, so that their users can try this one without learning it first. None of them is imported."""
