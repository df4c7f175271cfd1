-- expect: script
function F() local t = {} t.t = {t = t} return t end
