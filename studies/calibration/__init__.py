"""Models whose circuits are known, and false circuits planted in them, for the calibration of certificates."""
