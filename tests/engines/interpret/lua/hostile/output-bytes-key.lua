-- expect: script
function F() return {['\255'] = 1} end
