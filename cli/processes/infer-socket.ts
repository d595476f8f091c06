/** What the socket of a sampling process is called. */

/** Bytes of the longest name that `inferSocketName` gives. */
export const LONGEST_SOCKET_NAME = 60;

/**
 * At most 60 bytes, all ASCII and none of them a separator of paths: whatever else policy and host hold becomes `_`. Processes whose
 * names are cut alike differ by their ids.
 */
export const inferSocketName = (policy: string, host: string, processId: number): string =>
  `infer-${plain(policy, 24)}-${plain(host, 16)}-${processId}.sock`;

const plain = (text: string, most: number): string => text.replace(/[^A-Za-z0-9._-]/gu, '_').slice(0, most);
