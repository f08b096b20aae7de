-- Does a name match a pattern?
SELECT ?1 GLOB ?2
