-- What an identity measures again under a newer browser is found for a whole space at once, by
-- kernelzoo.store.prospects.

DROP FUNCTION stands;
