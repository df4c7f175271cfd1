-- expect: script
function F() return os.execute('id') end
