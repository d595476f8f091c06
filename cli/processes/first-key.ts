/** The API key settings of the environment and the configuration. */
import { got, TroupeError } from '../../errors.ts';
import { digestOf } from '../../store/keys/api-key.ts';

const SHORTEST = 32;

/**
 * The SHA-256 of the key in TROUPE_API_KEY, null where there is none. The key itself leaves the environment, so that this process
 * holds only its hash.
 * @throws TroupeError `config_invalid` for one that could be guessed
 */
export function takeFirstKey(env: Record<string, string | undefined>): Buffer | null {
  const { TROUPE_API_KEY: key } = env;
  delete env.TROUPE_API_KEY;
  if (!key) return null;
  if (key.length < SHORTEST || key.length > 512 || !/^[\x21-\x7e]+$/.test(key)) {
    throw new TroupeError(
      'config_invalid',
      `TROUPE_API_KEY should have ${SHORTEST} to 512 characters and no blanks, such as what \`openssl rand -hex 32\` prints.`,
      { field: 'TROUPE_API_KEY' },
    );
  }
  return digestOf(key);
}

/** @throws TroupeError `config_invalid` for another word */
export function loopbackIsOpen(loopback: string): boolean {
  if (loopback === 'open' || loopback === 'keys') return loopback === 'open';
  throw new TroupeError('config_invalid', `loopback should be keys or open, but it is ${got(loopback)}.`, {
    field: 'loopback',
  });
}
