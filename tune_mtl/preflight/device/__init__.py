"""Whether strategies run on this machine's accelerator as they do on its CPU, and how fast: `doctor --device`."""
