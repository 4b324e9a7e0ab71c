"""What happens on the Redis server, atomically: one Lua script for each operation.

A call is one hash: `scope`, `call_id` and the rest of its identity, `n` (the highest ordinal), and for each
ordinal `i` the fields `i:state`, `i:session`, `i:grant`, `i:owner`, `i:began`, `i:ended`, `i:error`, `i:status`,
`i:usage`, `i:key`, `i:digest` and, for the answer that stands, `i:response`. The leases are one hash of session id
to the server's time of expiry in milliseconds. KEYS are always: the call, the leases, the position.
"""

from __future__ import annotations

from beam_agents.journals.attempts import LOST

__all__ = ["SCRIPTS"]

_SHARED = """
local call, leases, position = KEYS[1], KEYS[2], KEYS[3]
local function get(i, name) return redis.call('HGET', call, i .. ':' .. name) end
local function count() return tonumber(redis.call('HGET', call, 'n') or '0') end
local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function lease_left(session, now)
    local till = redis.call('HGET', leases, session)
    return till and math.max(0, tonumber(till) - now) or 0
end
local function rows(now)
    local left = {}
    for i = 1, count() do
        if get(i, 'state') == 'intent' then
            left[#left + 1] = tostring(i)
            left[#left + 1] = tostring(lease_left(get(i, 'session'), now))
        end
    end
    return {redis.call('HGETALL', call), left}
end
local function standing()
    for i = 1, count() do
        if redis.call('HEXISTS', call, i .. ':response') == 1 then return true end
    end
    return false
end
local function keep(ttl)
    if tonumber(ttl) > 0 then
        redis.call('PEXPIRE', call, ttl)
        redis.call('PEXPIRE', position, ttl)
    end
end
local function identify(a)
    redis.call('HSET', call, 'scope', ARGV[a], 'call_id', ARGV[a + 1], 'entity_key', ARGV[a + 2], 'seq', ARGV[a + 3],
        'step_index', ARGV[a + 4], 'model_id', ARGV[a + 5], 'kind', ARGV[a + 6], 'fingerprint', ARGV[a + 7])
    redis.call('SADD', position, ARGV[a + 1])
end
"""

_READ = "return rows(now_ms())"

_GRANT = f"""
local session, owner, grant, lease, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local now, n = now_ms(), count()
if standing() then return rows(now) end
for i = 1, n do
    if get(i, 'state') == 'intent' then
        local theirs = get(i, 'session')
        if theirs == session and get(i, 'grant') == grant then return i end
        if theirs == session or lease_left(theirs, now) > 0 then return rows(now) end
    end
end
for i = 1, n do
    if get(i, 'state') == 'intent' then
        redis.call('HSET', call, i .. ':state', 'in_doubt', i .. ':error', '{LOST}', i .. ':ended', now)
    end
end
n = n + 1
identify(6)
redis.call('HSET', call, 'n', n, n .. ':state', 'intent', n .. ':session', session, n .. ':grant', grant,
    n .. ':owner', owner, n .. ':began', now)
redis.call('HSET', leases, session, now + lease)
keep(ttl)
return n
"""

_FINISH = f"""
local owner, ttl = ARGV[1], ARGV[2]
local i, state, error, status = ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local usage, key, digest, response = ARGV[15], ARGV[16], ARGV[17], ARGV[18]
local now, was = now_ms(), get(i, 'state')
if not was then
    identify(3)
    redis.call('HSET', call, 'n', math.max(count(), tonumber(i)), i .. ':owner', owner, i .. ':began', now)
elseif was == 'answered' then return redis.call('HEXISTS', call, i .. ':response')
elseif state ~= 'answered' and was ~= 'intent' and get(i, 'error') ~= '{LOST}' then return 0 end
redis.call('HSET', call, i .. ':state', state, i .. ':error', error, i .. ':status', status, i .. ':ended', now)
if state == 'answered' then
    redis.call('HSET', call, i .. ':usage', usage, i .. ':key', key, i .. ':digest', digest)
    if not standing() then redis.call('HSET', call, i .. ':response', response) end
end
keep(ttl)
return redis.call('HEXISTS', call, i .. ':response')
"""

_CONDEMN = """
local i, digest, error = ARGV[1], ARGV[2], ARGV[3]
if get(i, 'digest') == digest then
    redis.call('HDEL', call, i .. ':response')
    redis.call('HSET', call, i .. ':error', error)
end
return 1
"""

_WITHDRAW = """
local session, grant, n = ARGV[1], ARGV[2], count()
for i = 1, n do
    if get(i, 'state') == 'intent' and get(i, 'session') == session and get(i, 'grant') == grant then
        for _, name in ipairs({'state', 'session', 'grant', 'owner', 'began'}) do
            redis.call('HDEL', call, i .. ':' .. name)
        end
        if i == n then redis.call('HSET', call, 'n', n - 1) end
        if n == 1 then
            redis.call('SREM', position, redis.call('HGET', call, 'call_id'))
            redis.call('DEL', call)
        end
    end
end
return 1
"""

_BEAT = """
local session, lease, now = ARGV[1], tonumber(ARGV[2]), now_ms()
for _, other in ipairs(redis.call('HKEYS', leases)) do
    if lease_left(other, now) == 0 then redis.call('HDEL', leases, other) end
end
if lease > 0 then redis.call('HSET', leases, session, now + lease) else redis.call('HDEL', leases, session) end
return 1
"""

_SUMMARY = """
local now, n = now_ms(), count()
local facts = redis.call('HMGET', call, 'scope', 'call_id', 'entity_key', 'seq', 'step_index', 'model_id', 'kind',
    'fingerprint')
local found = {facts}
for i = 1, n do
    local state = get(i, 'state')
    if state then
        local left = 0
        if state == 'intent' then left = lease_left(get(i, 'session'), now) end
        local response = ''
        if ARGV[1] == '1' then response = get(i, 'response') or '' end
        found[#found + 1] = {tostring(i), state, get(i, 'error') or '', get(i, 'status') or '', get(i, 'usage') or '',
            get(i, 'key') or '', get(i, 'digest') or '', response, tostring(left), get(i, 'owner') or '',
            get(i, 'began') or '', get(i, 'ended') or '', tostring(redis.call('HSTRLEN', call, i .. ':response')),
            tostring(redis.call('HEXISTS', call, i .. ':response'))}
    end
end
return found
"""

_DELETE = """
local before, now, n, kept = tonumber(ARGV[1]), now_ms(), count(), 0
for i = 1, n do
    if get(i, 'state') then
        kept = kept + 1
        if before > 0 and tonumber(get(i, 'ended') or get(i, 'began')) >= before then return 0 end
        if before > 0 and get(i, 'state') == 'intent' and lease_left(get(i, 'session'), now) > 0 then return 0 end
    end
end
redis.call('SREM', position, redis.call('HGET', call, 'call_id') or '')
redis.call('DEL', call)
return kept
"""

SCRIPTS = {
    name: _SHARED + body
    for name, body in {
        "read": _READ,
        "grant": _GRANT,
        "finish": _FINISH,
        "condemn": _CONDEMN,
        "withdraw": _WITHDRAW,
        "beat": _BEAT,
        "summary": _SUMMARY,
        "delete": _DELETE,
    }.items()
}
"""Name of an operation to its Lua text."""
