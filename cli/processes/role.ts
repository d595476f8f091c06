/** What a role is: a process of `troupe run`. */
import type { Context } from '../context.ts';

/** `address`: the URL at which others reach it, where that is not its host and port. */
export type ListenAt = { readonly port: number; readonly address?: string };

export type RoleOptions = {
  readonly policy?: string;
  readonly model?: string;
  /** Where `infer` listens for other machines; a Unix socket if omitted. */
  readonly listen?: ListenAt | undefined;
  readonly signal: AbortSignal;
  /** Called once it is ready, with its address if it serves one. */
  readonly onReady: (facts: { readonly role: string; readonly address?: string }) => void;
};

export type Role = (context: Context, options: RoleOptions) => Promise<void>;
