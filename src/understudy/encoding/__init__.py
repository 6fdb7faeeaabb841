"""Values to levels, scores, features and bins, and back."""
