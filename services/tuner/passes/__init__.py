"""IR to IR passes; each is one pure function of a program."""
