"""The paper's tables, figures and claims with the numbers of our searches, on one page. Reads runs, trains nothing."""
