-- Most scripts begin with this one: a namespace in another format they leave alone.
--@include prelude

check_format(call('HGET', META, 'format'))
