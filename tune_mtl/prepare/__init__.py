"""From data sets as people have them on disk to prepared sets: one module per data set, one writer for all."""
