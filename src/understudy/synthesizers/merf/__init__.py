"""DP-MERF: a generator fitted to one noisy mean embedding."""
