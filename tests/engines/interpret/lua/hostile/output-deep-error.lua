-- expect: script
function F() local t = {} t.t = t error(t) end
