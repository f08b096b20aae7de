-- Is there anything beyond plain jobs that an exchange has to look at?
SELECT EXISTS (SELECT 1 FROM ended), EXISTS (SELECT 1 FROM lane), EXISTS (SELECT 1 FROM control)
