"""Table 4.2 of the thesis, measured: what a layer of each kind costs, and how far it passes information on."""
