-- The first look of every script that looks at jobs or acts on them. Those that ask {ns}:meta for something anyway ask for the
-- format along with it. Those of a session need not: none is opened in a namespace of another format.
check_format(call('HGET', META, 'format'))
