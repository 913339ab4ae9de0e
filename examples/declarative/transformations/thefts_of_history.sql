-- Every theft among all events that there are, found anew by each run: the backfill beside the streaming table.
CREATE MATERIALIZED VIEW thefts_of_history AS
SELECT * FROM tocsin_detect(
    TABLE(events),
    'EVENT SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 12 h SELECT s.tag AS tag'
);
