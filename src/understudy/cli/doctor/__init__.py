"""The doctor: checks that everything a fit needs is here, and that a small fit works.

The one rule: it changes nothing. It uses no network, reads no table but a simulated one, and leaves no file behind. A
check that fails is a finding of its own, so that the last check is always reached.
"""
