-- expect: answer
function F() return {tostring({}), tostring(print), tostring(F), string.format('%s', {})} end
