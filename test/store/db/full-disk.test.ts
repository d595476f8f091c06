import { expect, it } from 'vitest';
import { connectError } from '../../../store/db/faults.ts';

const SOCKET = 'postgres://troupe@localhost/troupe?host=/srv/home/run';
const refused = (code: string) => Object.assign(new Error(`connect ${code}`), { code });

it.each(['ECONNREFUSED', 'ENOENT', '57P03'])('a server that is away (%s) with its disk full is a full disk', (code) => {
  const asked: string[] = [];
  const { code: reported, message } = connectError(refused(code), SOCKET, (folder) => {
    asked.push(folder);
    return 4096;
  });
  expect([reported, asked]).toEqual(['disk_full', ['/srv/home/run']]);
  expect(message).toContain('the disk of /srv/home/run has 4 KiB left');
});

it('with space left, or on another machine, it is only away', () => {
  const codeWith = (url: string, free: number | null, code = 'ECONNREFUSED') =>
    connectError(refused(code), url, () => free).code;
  expect(codeWith(SOCKET, 2 ** 30)).toBe('unreachable');
  expect(codeWith(SOCKET, null)).toBe('unreachable');
  expect(codeWith('postgres://troupe@10.0.0.1:5432/troupe', 0)).toBe('unreachable');
  expect(codeWith(SOCKET, 0, '28P01')).toBe('unreachable');
});
