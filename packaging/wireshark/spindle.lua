-- Wireshark dissector of Spindle's formats: TCP segments in UDP (docs/wire/encapsulation.md), and the experimental TCP
-- options and packets of parities, packet scatter and coding (docs/wire/parities.md, scatter.md, coding.md).
--
-- Install: copy this file to the directory "Personal Lua Plugins" of Help > About Wireshark > Folders, or run
-- `tshark -X lua_script:spindle.lua`. Tested with Wireshark 4.0.
--
-- A segment in UDP is passed to Wireshark's own TCP dissector, with the addresses of the outer IP header and its own
-- ports, so that the filters of TCP and MPTCP work on it. The field spindle.id identifies the subflow, also after a
-- NAT has changed the client's address.
--
-- On the sending host a capture may contain several datagrams of equal size as one (UDP segmentation offload, udp(7):
-- UDP_SEGMENT), and on the receiving host as well (UDP_GRO). They are dissected one by one.
--
-- The payload of a parity outside sequence space (PARITY) is no data. In UDP it is therefore not passed to the TCP
-- dissector. Without UDP, Wireshark takes it for data that overlap others.

-- docs/wire/encapsulation.md: the first byte, the two bytes before the id, and the length of the header.
local VERSION, MAGIC, HEADER_LEN = 8, 0x5370, 12
local DATA, CHALLENGE, REPLY, PROBE, PROBE_ACK, CODED = 0, 1, 2, 3, 4, 5
local TYPES = {
    [DATA] = "TCP segment",
    [CHALLENGE] = "Challenge",
    [REPLY] = "Challenge reply",
    [PROBE] = "PLPMTU probe",
    [PROBE_ACK] = "Probe acknowledgement",
    [CODED] = "Coded packet",
}
-- RFC 3168, section 5.
local ECN = { [0] = "Not-ECT", [1] = "ECT(1)", [2] = "ECT(0)", [3] = "CE" }

-- RFC 4727 and RFC 6994: the experimental option, its header, and the identifiers of docs/wire/README.md.
local EXPERIMENT, OPTION_HEADER_LEN = 253, 4
local PARITIES, SCATTER, CODING = 0x5350, 0x5354, 0x5343
local EXPERIMENTS = { [PARITIES] = "Parities", [SCATTER] = "Packet scatter", [CODING] = "Coding" }

-- docs/wire/parities.md: the first byte of the option's data, and the length of the data.
local OFFER, PARITY, ECHO, OFFER_BLOCKS, NAME, BLOCK = 0, 1, 2, 3, 4, 5
local MESSAGES = {
    [OFFER] = "OFFER",
    [PARITY] = "PARITY",
    [ECHO] = "ECHO",
    [OFFER_BLOCKS] = "OFFER_BLOCKS",
    [NAME] = "NAME",
    [BLOCK] = "BLOCK",
}
local MESSAGE_LEN = { [OFFER] = 1, [PARITY] = 12, [ECHO] = 6, [OFFER_BLOCKS] = 1, [NAME] = 2, [BLOCK] = 7 }
-- The length of OFFER_BLOCKS with its flags.
local FLAGGED_OFFER_LEN = 2
local OUTCOMES = { [0] = "no packet was missing", [1] = "one packet was recovered", [2] = "not recoverable" }
-- The coding header of CoFUSO in front of a block's coded bytes.
local BLOCK_HEADER_LEN = 20

-- docs/wire/coding.md.
local CODES = {
    [0] = "LDPC",
    [1] = "LDPC, systematic",
    [2] = "Reed-Solomon",
    [3] = "Reed-Solomon, systematic",
    [4] = "any k packets",
}
local CODED_HEADER_LEN, CODED_LEN, CODED_ACK_LEN, MAX_SOURCES = 12, 14, 20, 127
-- RFC 3692: the protocol number of encoded packets that are not in UDP.
local IP_EXPERIMENT = 253

local TCP_MIN_HEADER, TCP_OFFSET_BYTE, TCP_CHECKSUM = 20, 12, 16
-- Kinds of TCP options without a length: the end of the list and NOP (RFC 9293, section 3.1).
local END, NOP = 0, 1

local spindle = Proto("spindle", "Spindle UDP encapsulation")
local coded = Proto("spindle_coded", "Spindle coding layer")
local option = Proto("spindle_option", "Spindle TCP option")

local function fields_of(proto, list)
    local fields, all = {}, {}
    for name, field in pairs(list) do
        fields[name] = field
        all[#all + 1] = field
    end
    proto.fields = all
    return fields
end

local F = fields_of(spindle, {
    version = ProtoField.uint8("spindle.version", "Version"),
    ecn = ProtoField.uint8("spindle.ecn", "ECN of the packet inside", base.DEC, ECN, 0xc0),
    type = ProtoField.uint8("spindle.type", "Type", base.DEC, TYPES, 0x3f),
    magic = ProtoField.uint16("spindle.magic", "Magic", base.HEX),
    id = ProtoField.uint64("spindle.id", "Encapsulation id", base.HEX),
    number = ProtoField.uint64("spindle.number", "Number", base.HEX),
    size = ProtoField.uint16("spindle.probe_size", "UDP payload of the probe (bytes)"),
    padding = ProtoField.bytes("spindle.padding", "Padding"),
    parity = ProtoField.bytes("spindle.parity", "Payload of the parity, outside sequence space"),
})

local C = fields_of(coded, {
    srcport = ProtoField.uint16("spindle_coded.srcport", "Source port"),
    dstport = ProtoField.uint16("spindle_coded.dstport", "Destination port"),
    unit = ProtoField.uint16("spindle_coded.unit", "Unit"),
    k = ProtoField.uint8("spindle_coded.k", "Segments in the unit (k)"),
    n = ProtoField.uint8("spindle_coded.n", "Packets of the unit (k + r)"),
    index = ProtoField.uint8("spindle_coded.index", "Index"),
    timestamp = ProtoField.uint24("spindle_coded.timestamp", "Timestamp (us)"),
    length = ProtoField.uint16("spindle_coded.length", "Coded length", base.HEX),
    symbol = ProtoField.bytes("spindle_coded.symbol", "Symbol"),
    arrived = ProtoField.uint32("spindle_coded.arrived", "Encoded packets that have arrived"),
    decoded = ProtoField.uint32("spindle_coded.decoded", "Units decoded"),
})

local O = fields_of(option, {
    exid = ProtoField.uint16("spindle_option.exid", "ExID", base.HEX, EXPERIMENTS),
    message = ProtoField.uint8("spindle_option.parity.message", "Message", base.DEC, MESSAGES),
    packets = ProtoField.uint8("spindle_option.parity.packets", "Packets"),
    first = ProtoField.uint32("spindle_option.parity.first", "Position of the first byte"),
    span = ProtoField.uint32("spindle_option.parity.span", "Bytes of the block"),
    lengths = ProtoField.uint16("spindle_option.parity.lengths", "XOR of the lengths", base.HEX),
    outcome = ProtoField.uint8("spindle_option.parity.outcome", "Outcome", base.DEC, OUTCOMES),
    echo_end = ProtoField.uint32("spindle_option.parity.end", "Position of the block's end"),
    name = ProtoField.uint8("spindle_option.parity.name", "Name of the subflow"),
    early_joins = ProtoField.bool("spindle_option.parity.early_joins", "Joins may come before the keys", 8, nil, 0x01),
    start = ProtoField.uint32("spindle_option.block.start", "Position of the parity's first byte"),
    len = ProtoField.uint16("spindle_option.block.len", "Length of the parity (bytes)"),
    subflow = ProtoField.uint8("spindle_option.block.subflow", "Protected subflow (SF_ID)"),
    s_sn = ProtoField.uint32("spindle_option.block.s_sn", "Position of the block's first byte (S_SN)"),
    e_sn = ProtoField.uint32("spindle_option.block.e_sn", "Position after the block (E_SN)"),
    k = ProtoField.uint8("spindle_option.block.k", "Packets in the block (K)"),
    m = ProtoField.uint8("spindle_option.block.m", "Maximum number of parities (M)"),
    index = ProtoField.uint8("spindle_option.block.index", "Index of this parity (P_Index)"),
    l_coded = ProtoField.uint32("spindle_option.block.l_coded", "Code over the lengths (L_CODED)", base.HEX),
    d_sn = ProtoField.uint32("spindle_option.block.d_sn", "Code over the data sequence numbers (D_SN)", base.HEX),
    bytes = ProtoField.bytes("spindle_option.block.bytes", "Coded bytes"),
    token = ProtoField.uint32("spindle_option.scatter.token", "Receiver's token", base.HEX),
    code = ProtoField.uint8("spindle_option.coding.code", "Code", base.DEC, CODES),
    timestamp = ProtoField.uint24("spindle_option.coding.timestamp", "Echoed timestamp (us)"),
})

local MALFORMED, ERROR = expert.group.MALFORMED, expert.severity.ERROR
local malformed_datagram = ProtoExpert.new("spindle.malformed", "Malformed datagram", MALFORMED, ERROR)
local malformed_coded = ProtoExpert.new("spindle_coded.malformed", "Malformed packet", MALFORMED, ERROR)
local malformed_option = ProtoExpert.new("spindle_option.malformed", "Malformed option", MALFORMED, ERROR)
spindle.experts = { malformed_datagram }
coded.experts = { malformed_coded }
option.experts = { malformed_option }

spindle.prefs.ports = Pref.range(
    "UDP ports",
    "",
    "Ports of gateways. Other ports are recognised by the header, unless another dissector is registered for them.",
    65535
)

local tcp = Dissector.get("tcp")
local ip_addresses = { Field.new("ip.src"), Field.new("ip.dst") }
local ipv6_addresses = { Field.new("ipv6.src"), Field.new("ipv6.dst") }
local tcp_options = Field.new("tcp.options")
local tcp_payload = Field.new("tcp.payload")
local tcp_seq = Field.new("tcp.seq")

-- The last value of a field in this packet, or nil: the innermost header comes last.
local function last(extractor)
    local all = { extractor() }
    return all[#all]
end

-- The value of a field that begins at this byte of the packet, or nil.
local function at_offset(extractor, offset)
    for _, info in ipairs({ extractor() }) do
        if info.offset == offset and info.range then
            return info
        end
    end
    return nil
end

-- Calls `visit` with the offset, the length and the ExID of each experimental option (RFC 6994) among TCP options.
local function experiments_of(range, visit)
    local at, len = 0, range:len()
    while at + 1 < len do
        local kind = range(at, 1):uint()
        if kind == END then
            return
        elseif kind == NOP then
            at = at + 1
        else
            local size = range(at + 1, 1):uint()
            if size < 2 or at + size > len then
                return
            end
            if kind == EXPERIMENT and size >= OPTION_HEADER_LEN then
                visit(at, size, range(at + 2, 2):uint())
            end
            at = at + size
        end
    end
end

-- The coding layer -----------------------------------------------------------------------------------------------------

-- Why the bytes are not a packet of the coding layer, or nil.
local function coded_error(buffer)
    local len = buffer:len()
    if len < CODED_HEADER_LEN then
        return string.format("%d bytes, but the header has %d", len, CODED_HEADER_LEN)
    end
    local k, n, index = buffer(6, 1):uint(), buffer(7, 1):uint(), buffer(8, 1):uint()
    if k == 0 then
        return len < CODED_ACK_LEN and string.format("%d bytes, but an acknowledgement has %d", len, CODED_ACK_LEN) or nil
    end
    if k > MAX_SOURCES or n < k or index >= n then
        return string.format("packet %d of %d for %d segments", index, n, k)
    end
    return len < CODED_LEN and string.format("%d bytes, but the header has %d", len, CODED_LEN) or nil
end

-- Dissects a packet of the coding layer with its ports. Returns the number of bytes that it took.
local function dissect_coded(buffer, pinfo, tree)
    pinfo.cols.protocol = "Spindle"
    local subtree = tree:add(coded, buffer())
    local wrong = coded_error(buffer)
    if wrong then
        subtree:add_proto_expert_info(malformed_coded, wrong)
        pinfo.cols.info = "Malformed packet of the coding layer"
        return buffer:len()
    end
    local k, n, index = buffer(6, 1):uint(), buffer(7, 1):uint(), buffer(8, 1):uint()
    local ports = string.format("%d → %d", buffer(0, 2):uint(), buffer(2, 2):uint())
    local unit = buffer(4, 2):uint()
    subtree:add(C.srcport, buffer(0, 2))
    subtree:add(C.dstport, buffer(2, 2))
    subtree:add(C.unit, buffer(4, 2))
    subtree:add(C.k, buffer(6, 1))
    subtree:add(C.n, buffer(7, 1))
    subtree:add(C.index, buffer(8, 1))
    subtree:add(C.timestamp, buffer(9, 3))
    if k == 0 then
        subtree:add(C.arrived, buffer(12, 4))
        subtree:add(C.decoded, buffer(16, 4))
        pinfo.cols.info = string.format("%s [Coding ACK] Unit=%d Index=%d", ports, unit, index)
        return buffer:len()
    end
    subtree:add(C.length, buffer(12, 2))
    if buffer:len() > CODED_LEN then
        subtree:add(C.symbol, buffer(CODED_LEN))
    end
    pinfo.cols.info = string.format("%s [Coded] Unit=%d Packet=%d/%d k=%d", ports, unit, index + 1, n, k)
    subtree:append_text(string.format(", unit %d, packet %d of %d for %d segments", unit, index + 1, n, k))
    return buffer:len()
end

-- IP protocol 253 is for any experiment, so packets that do not look like Spindle's are left to others.
function coded.dissector(buffer, pinfo, tree)
    if coded_error(buffer) then
        return 0
    end
    return dissect_coded(buffer, pinfo, tree)
end

-- UDP ------------------------------------------------------------------------------------------------------------------

-- Whether Wireshark verifies TCP's checksums.
local function verifies_checksums()
    if not get_preference then
        return false
    end
    local known, value = pcall(get_preference, "tcp.check_checksum")
    return known and value == true
end

local function sum_words(range, from)
    local len = range:len()
    local sum = from
    for at = 0, len - 2, 2 do
        sum = sum + range(at, 2):uint()
    end
    if len % 2 == 1 then
        sum = sum + range(len - 1, 1):uint() * 256
    end
    return sum
end

-- The lengths of a segment's TCP header and of what is a TCP segment for others: without the payload of a parity
-- outside sequence space. Returns nil if the header does not fit.
local function tcp_lengths(segment)
    local len = segment:len()
    local header = len >= TCP_MIN_HEADER and math.floor(segment(TCP_OFFSET_BYTE, 1):uint() / 16) * 4 or 0
    if header < TCP_MIN_HEADER or header > len then
        return nil
    end
    local as_tcp = len
    if header > TCP_MIN_HEADER then
        experiments_of(segment(TCP_MIN_HEADER, header - TCP_MIN_HEADER), function(at, size, exid)
            local data = TCP_MIN_HEADER + at + OPTION_HEADER_LEN
            local parity = exid == PARITIES and size == OPTION_HEADER_LEN + MESSAGE_LEN[PARITY]
            if parity and segment(data, 1):uint() == PARITY then
                as_tcp = header
            end
        end)
    end
    return header, as_tcp
end

-- The one's complement sum of the pseudo-header without the length (RFC 9293, section 3.1: addresses and protocol), or
-- nil if the addresses are not known.
local function pseudo_header()
    local src, dst = last(ip_addresses[1]), last(ip_addresses[2])
    if not src or not dst then
        src, dst = last(ipv6_addresses[1]), last(ipv6_addresses[2])
    end
    if not src or not dst then
        return nil
    end
    return sum_words(dst.range, sum_words(src.range, 6))
end

-- The datagrams with the TCP checksums that their segments would have in IP with the outer addresses: Spindle sends
-- zero, since UDP's checksum covers the segment. Without known addresses, the datagrams as they were sent.
local function with_checksums(buffer, size)
    local pseudo = pseudo_header()
    if not pseudo then
        return buffer
    end
    local bytes = buffer():bytes()
    for at = 0, buffer:len() - 1, size do
        local len = math.min(size, buffer:len() - at) - HEADER_LEN
        local header = nil
        if len > 0 and buffer(at + 1, 1):bitfield(2, 6) == DATA then
            header, len = tcp_lengths(buffer(at + HEADER_LEN, len))
        end
        if header then
            local checksum = at + HEADER_LEN + TCP_CHECKSUM
            local sum = sum_words(buffer(at + HEADER_LEN, len), pseudo + len) - buffer(checksum, 2):uint()
            while sum > 0xffff do
                sum = math.floor(sum / 0x10000) + sum % 0x10000
            end
            sum = 0xffff - sum
            bytes:set_index(checksum, math.floor(sum / 256))
            bytes:set_index(checksum + 1, sum % 256)
        end
    end
    return bytes:tvb("Spindle with TCP checksums")
end

-- Passes a segment to Wireshark's TCP dissector.
local function dissect_segment(buffer, pinfo, tree, subtree)
    local header, as_tcp = tcp_lengths(buffer())
    if not header then
        subtree:add_proto_expert_info(malformed_datagram, "The TCP header does not fit into the datagram")
        pinfo.cols.info = "Malformed TCP segment"
        return
    end
    local segment = buffer
    if as_tcp < buffer:len() then
        subtree:add(F.parity, buffer(as_tcp))
        segment = buffer(0, as_tcp):tvb()
    end
    -- A dissector of the payload that meets malformed data raises an error, which Wireshark has shown already.
    pcall(tcp.call, tcp, segment, pinfo, tree)
end

-- Lengths of the messages, header included. Only a probe may be longer.
local MESSAGE_SIZE = { [CHALLENGE] = 20, [REPLY] = 20, [PROBE] = 20, [PROBE_ACK] = 22 }

local function dissect_message(kind, buffer, pinfo, subtree)
    local len, size = buffer:reported_len(), MESSAGE_SIZE[kind]
    pinfo.cols.info = TYPES[kind]
    if len < size or (len > size and kind ~= PROBE) then
        local wrong = string.format("%d bytes, but the message has %d", len, size)
        subtree:add_proto_expert_info(malformed_datagram, wrong)
        return
    end
    if buffer:len() < size then
        -- The capture was cut off (snap length).
        return
    end
    subtree:add(F.number, buffer(HEADER_LEN, 8))
    if kind == PROBE_ACK then
        subtree:add(F.size, buffer(20, 2))
        pinfo.cols.info:append(string.format(", %d bytes arrived", buffer(20, 2):uint()))
    elseif kind == PROBE then
        if buffer:len() > size then
            subtree:add(F.padding, buffer(size))
        end
        pinfo.cols.info:append(string.format(", %d bytes", len))
    end
end

-- Whether the datagram begins as one of Spindle's.
local function is_ours(buffer)
    return buffer:len() >= HEADER_LEN and buffer(0, 1):uint() == VERSION and buffer(2, 2):uint() == MAGIC
end

-- The size of the first of several datagrams that were captured as one, or the length of the whole. The headers of
-- one subflow's datagrams agree in the version, the magic number and the unpredictable id.
local function datagram_size(buffer)
    local bytes, len = buffer:raw(), buffer:len()
    local version, rest = bytes:sub(1, 1), bytes:sub(3, HEADER_LEN)
    local function begins(at)
        return bytes:sub(at, at) == version and bytes:sub(at + 2, at + HEADER_LEN - 1) == rest
    end
    local found = bytes:find(rest, HEADER_LEN + 1, true)
    while found do
        local size, all = found - 3, true
        for at = size + 1, len, size do
            all = all and begins(at)
        end
        if all and size >= HEADER_LEN then
            return size
        end
        found = bytes:find(rest, found + 1, true)
    end
    return len
end

local function dissect_datagram(buffer, pinfo, tree)
    local kind = buffer(1, 1):bitfield(2, 6)
    local ecn = buffer(1, 1):bitfield(0, 2)
    local carries = kind == DATA or kind == CODED
    pinfo.cols.protocol = "Spindle"
    local subtree = tree:add(spindle, buffer(0, carries and HEADER_LEN or buffer:len()))
    subtree:add(F.version, buffer(0, 1))
    subtree:add(F.ecn, buffer(1, 1))
    subtree:add(F.type, buffer(1, 1))
    subtree:add(F.magic, buffer(2, 2))
    subtree:add(F.id, buffer(4, 8))
    subtree:append_text(", " .. (TYPES[kind] or "unknown type") .. ", id 0x" .. tostring(buffer(4, 8):bytes()):lower())
    if buffer(4, 8):uint64() == UInt64(0) then
        subtree:add_proto_expert_info(malformed_datagram, "Encapsulation id 0, which no subflow has")
    end
    if not TYPES[kind] or (ecn ~= 0 and not carries) then
        subtree:add_proto_expert_info(malformed_datagram, "Unknown type, or an ECN field on a message")
        pinfo.cols.info = string.format("Unknown type %d", kind)
    elseif not carries then
        dissect_message(kind, buffer, pinfo, subtree)
    elseif buffer:len() == HEADER_LEN then
        subtree:add_proto_expert_info(malformed_datagram, "Nothing after the header")
        pinfo.cols.info = TYPES[kind]
    elseif kind == CODED then
        dissect_coded(buffer(HEADER_LEN):tvb(), pinfo, tree)
    else
        dissect_segment(buffer(HEADER_LEN):tvb(), pinfo, tree, subtree)
    end
end

function spindle.dissector(buffer, pinfo, tree)
    if not is_ours(buffer) then
        return 0
    end
    local len = buffer:len()
    local whole = len == buffer:reported_len()
    local size = whole and datagram_size(buffer) or len
    local datagrams = whole and verifies_checksums() and with_checksums(buffer, size) or buffer
    for at = 0, len - 1, size do
        if at > 0 then
            pinfo.cols.info:append(", ")
            pinfo.cols.info:fence()
        end
        dissect_datagram(datagrams(at, math.min(size, len - at)):tvb(), pinfo, tree)
    end
    return len
end

-- The TCP options ------------------------------------------------------------------------------------------------------

-- Parts of a parity's message: field, offset from the option's data, length.
local PARTS = {
    [PARITY] = { { O.packets, 1, 1 }, { O.first, 2, 4 }, { O.span, 6, 4 }, { O.lengths, 10, 2 } },
    [ECHO] = { { O.outcome, 1, 1 }, { O.echo_end, 2, 4 } },
    [NAME] = { { O.name, 1, 1 } },
    [BLOCK] = { { O.start, 1, 4 }, { O.len, 5, 2 } },
}

-- CoFUSO's coding header and the coded bytes, if the parity begins with this segment. A segment may carry a later
-- piece of a parity; the relative sequence number of the first byte then differs from the position in the option.
local function dissect_block(data, subtree, options)
    -- The payload follows the options, and the sequence number is at byte 4 of the header's 20 bytes before them.
    local payload = at_offset(tcp_payload, options.offset + options.len)
    local seq = at_offset(tcp_seq, options.offset - TCP_MIN_HEADER + 4)
    local whole = payload and payload.range:len() == data(5, 2):uint()
    local begins = whole or (payload and seq and seq.value == data(1, 4):uint())
    if not begins or payload.range:len() < BLOCK_HEADER_LEN then
        return
    end
    local p = payload.range
    subtree:add(O.subflow, p(0, 1))
    subtree:add(O.s_sn, p(1, 4))
    subtree:add(O.e_sn, p(5, 4))
    subtree:add(O.k, p(9, 1))
    subtree:add(O.m, p(10, 1))
    subtree:add(O.index, p(11, 1))
    subtree:add(O.l_coded, p(12, 4))
    subtree:add(O.d_sn, p(16, 4))
    if p:len() > BLOCK_HEADER_LEN then
        subtree:add(O.bytes, p(BLOCK_HEADER_LEN, p:len() - BLOCK_HEADER_LEN))
    end
end

-- Each of these dissects an option's data. It returns a summary, or nil if the data are malformed.
local function dissect_parities(data, subtree, options)
    if not data then
        return nil
    end
    local message = data(0, 1):uint()
    subtree:add(O.message, data(0, 1))
    local flagged = message == OFFER_BLOCKS and data:len() == FLAGGED_OFFER_LEN
    if flagged then
        subtree:add(O.early_joins, data(1, 1))
    elseif MESSAGE_LEN[message] ~= data:len() then
        return nil
    end
    for _, part in ipairs(PARTS[message] or {}) do
        subtree:add(part[1], data(part[2], part[3]))
    end
    if message == BLOCK then
        dissect_block(data, subtree, options)
    end
    return "Parities " .. MESSAGES[message]
end

local function dissect_scatter(data, subtree)
    if not data then
        return "Scatter offer"
    elseif data:len() ~= 4 then
        return nil
    end
    subtree:add(O.token, data)
    return "Scattered"
end

local function dissect_coding(data, subtree)
    local len = data and data:len()
    if len == 1 then
        subtree:add(O.code, data)
        return "Coding " .. (CODES[data:uint()] or "unknown code")
    elseif len == 3 then
        subtree:add(O.timestamp, data)
        return "Coding echo"
    end
    return nil
end

local DISSECT = { [PARITIES] = dissect_parities, [SCATTER] = dissect_scatter, [CODING] = dissect_coding }

-- Dissects Spindle's options among the options of one TCP header.
local function dissect_options(options, pinfo, tree)
    experiments_of(options.range, function(at, size, exid)
        if not DISSECT[exid] then
            return
        end
        local whole = options.range(at, size)
        local subtree = tree:add(option, whole)
        subtree:add(O.exid, whole(2, 2))
        local data = size > OPTION_HEADER_LEN and whole(OPTION_HEADER_LEN, size - OPTION_HEADER_LEN) or nil
        local summary = DISSECT[exid](data, subtree, options)
        if summary then
            subtree:append_text(": " .. summary)
            pinfo.cols.info:append(" [" .. summary .. "]")
        else
            subtree:add_proto_expert_info(malformed_option, "Unknown message or wrong length")
        end
    end)
end

function option.dissector(_, pinfo, tree)
    for _, options in ipairs({ tcp_options() }) do
        if options.range then
            dissect_options(options, pinfo, tree)
        end
    end
end

register_postdissector(option)
spindle:register_heuristic("udp", function(buffer, pinfo, tree)
    return is_ours(buffer) and spindle.dissector(buffer, pinfo, tree) > 0
end)
local udp_ports = DissectorTable.get("udp.port")
udp_ports:add_for_decode_as(spindle)
DissectorTable.get("ip.proto"):add(IP_EXPERIMENT, coded)

local registered = ""
function spindle.prefs_changed()
    if spindle.prefs.ports == registered then
        return
    end
    if registered ~= "" then
        udp_ports:remove(registered, spindle)
    end
    registered = spindle.prefs.ports
    if registered ~= "" then
        udp_ports:add(registered, spindle)
    end
end
