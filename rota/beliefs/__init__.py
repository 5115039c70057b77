"""What we think: rates and costs as the scheduler believes them. What the physics knows lives in `sim`."""
