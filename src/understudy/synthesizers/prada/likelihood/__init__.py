"""`prada`, the default: one explicit density for each column, trained by penalised likelihood."""
