"""PostgreSQL through psycopg: the only place with SQL.

A store function returns a query as a value; `blocking` and `asynchronous` run it. The caller owns
the connection and the transaction.
"""
