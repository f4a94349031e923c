"""Language models behind one interface: `base` says what the loop needs of each."""
