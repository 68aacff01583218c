"""The formats that labels are imported from and exported to, one module each."""
