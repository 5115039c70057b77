"""What was measured becomes what is believed."""
