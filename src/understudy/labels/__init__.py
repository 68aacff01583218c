"""Labels in and out, in the formats that people have."""
