"""Files: results while a run goes on and afterwards, their layout, what a run is made of."""
