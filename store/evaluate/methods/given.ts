/** Data that is read and left as it is. */
export type Given<T> = unknown extends T ? T : { readonly [Key in keyof T]: Given<T[Key]> };
