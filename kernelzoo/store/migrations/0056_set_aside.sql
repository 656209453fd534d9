-- What was set aside lately is found without reading what was not.

CREATE INDEX measurement_set_aside ON measurement (created_at)
    WHERE verdict IN ('rejected', 'quarantined', 'unjudged');
