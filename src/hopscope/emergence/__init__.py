"""Emergence: what a certified circuit does at every checkpoint of its run (Section 9)."""
