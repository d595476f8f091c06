/**
 * Where a connection may lead. A name does not identify the machine behind it, so the address itself is checked when
 * connecting: loopback, private, link-local and metadata addresses are allowed only where the configuration names them explicitly.
 */
import { BlockList, isIP } from 'node:net';

const blocks = (ranges: readonly string[]): BlockList => {
  const list = new BlockList();
  for (const range of ranges) {
    const [network, bits] = range.split('/') as [string, string];
    list.addSubnet(network, Number(bits), isIP(network) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
};

const LOOPBACK = blocks(['127.0.0.0/8', '::1/128']);
/** Private networks. */
const PRIVATE = blocks(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7']);
/** Link-local, with the metadata services of clouds, and what is nobody's server (IANA special-purpose registries). */
const NEVER = blocks([
  ...['0.0.0.0/8', '169.254.0.0/16', '192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '198.18.0.0/15'],
  ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::/128', '100::/64', '2001:db8::/32', 'fe80::/10', 'fec0::/10', 'ff00::/8', '64:ff9b:1::/48', '2001::/32'],
  'fd00:ec2::/32',
]);

/** What kind of address a literal IPv4 or IPv6 address is; anything else is `never`. An IPv6 address that carries an IPv4 address counts as that. */
export function kindOf(address: string): 'public' | 'loopback' | 'private' | 'never' {
  const version = isIP(address);
  if (version === 0) return 'never';
  const inner = version === 6 ? embedded(address) : null;
  if (inner !== null) return kindOf(inner);
  const family = version === 6 ? 'ipv6' : 'ipv4';
  if (NEVER.check(address, family)) return 'never';
  if (LOOPBACK.check(address, family)) return 'loopback';
  return PRIVATE.check(address, family) ? 'private' : 'public';
}

/** The IPv4 address that an IPv6 address carries: mapped, compatible, translated (NAT64) or 6to4. */
function embedded(address: string): string | null {
  const words = wordsOf(address);
  const [a, b, c, d, e, f] = words as [number, number, number, number, number, number];
  const dotted = (high: number, low: number) => [high >> 8, high & 255, low >> 8, low & 255].join('.');
  const last = dotted(words[6]!, words[7]!);
  if (a === 0x2002) return dotted(b, c);
  if (a === 0x64 && b === 0xff9b && c + d + e + f === 0) return last;
  if (a + b + c + d !== 0) return null;
  if (e === 0 && (f === 0xffff || f === 0)) return words[6]! === 0 && words[7]! <= 1 && f === 0 ? null : last;
  return e === 0xffff && f === 0 ? last : null;
}

/** The eight words of an IPv6 address. */
function wordsOf(address: string): number[] {
  const plain = address.split('%', 1)[0]!.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes) => {
    const [a, b, c, d] = bytes.slice(0, 4).map(Number) as [number, number, number, number];
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });
  const [before = '', after] = plain.split('::');
  const words = (text: string | undefined) => (text ? text.split(':').map((word) => Number.parseInt(word, 16)) : []);
  const [front, back] = [words(before), words(after)];
  return after === undefined ? front : [...front, ...Array(8 - front.length - back.length).fill(0), ...back];
}

/**
 * Whether the server at `host` (as its URL writes it) may be reached at `address`. A literal address in the configuration is allowed,
 * `localhost` means this machine, and `isPrivate` allows addresses of private networks and of this machine.
 */
export function mayReach(host: string, address: string, isPrivate: boolean): boolean {
  const name = host.replace(/^\[|\]$/g, '');
  if (isIP(name) !== 0) return name === address;
  const kind = kindOf(address);
  if (kind === 'loopback') return isPrivate || name === 'localhost' || name.endsWith('.localhost');
  return kind === 'public' || (kind === 'private' && isPrivate);
}
