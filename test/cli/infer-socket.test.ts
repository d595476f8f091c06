import { describe, expect, it } from 'vitest';
import { inferSocketName, LONGEST_SOCKET_NAME } from '../../cli/processes/infer-socket.ts';

describe('the name of the socket of a sampling process', () => {
  it('has policy, host and process in it', () => {
    expect(inferSocketName('solver-v1.2_a', 'host-1.example', 4321)).toBe(
      'infer-solver-v1.2_a-host-1.example-4321.sock',
    );
  });

  it.each([
    ['é'.repeat(100), 'h'.repeat(64), 4_194_304],
    ['团队'.repeat(40), '主机'.repeat(40), 1],
    ['😀'.repeat(40), 'h', 4_194_304],
  ])('has no more bytes than a folder was chosen for: %s', (policy, host, pid) => {
    expect(Buffer.byteLength(inferSocketName(policy, host, pid))).toBeLessThanOrEqual(LONGEST_SOCKET_NAME);
  });

  it('is one name in its folder, whatever the policy is called', () => {
    expect(inferSocketName('../team/a b', 'h', 1)).toBe('infer-.._team_a_b-h-1.sock');
  });
});
