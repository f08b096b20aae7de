-- Give up the statistics of a day.
DELETE FROM stat WHERE day = ?1
